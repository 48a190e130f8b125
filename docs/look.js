// Faults of the page that is open, at its width and in its color scheme; look.py runs this in a browser.
(() => {
  const faults = new Set();
  const desk = innerWidth >= 1000;
  const style = element => getComputedStyle(element);
  const name = element => {
    const classes = [...element.classList].slice(0, 2).map(c => "." + c).join("");
    const text = (element.innerText || element.alt || "").trim().split("\n")[0].slice(0, 50);
    return `${element.tagName.toLowerCase()}${classes} "${text}"`;
  };
  const above = function* (element) {
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement) yield box;
  };
  const scrolls = element => ["auto", "scroll"].includes(style(element).overflowX);
  const hides = element => ["hidden", "clip"].includes(style(element).overflowX);
  const read_aloud = element => element.closest(".visually-hidden, .sr-only, math, svg, [hidden], dialog");

  // --- widths
  const root = document.documentElement;
  const sideways = root.scrollWidth > root.clientWidth + 1;
  if (sideways) faults.add("the page scrolls sideways");
  for (const element of document.querySelectorAll("main *")) {
    const place = element.getBoundingClientRect();
    if (!place.width || !place.height || read_aloud(element) || !element.checkVisibility()) continue;
    const around = [...above(element)];
    const box = around.find(b => scrolls(b) || hides(b));
    const block = around.find(b => style(b).display !== "inline" && style(b).display !== "contents");
    if (box && hides(box) && place.right > box.getBoundingClientRect().right + 1) faults.add(`cut: ${name(element)}`);
    else if (!around.some(scrolls) && block && place.right > block.getBoundingClientRect().right + 1
        && style(element).position === "static") faults.add(`sticks out: ${name(element)}`);
    if (element.clientWidth && element.scrollWidth > element.clientWidth + 1) {
      // on a phone, code, tables, formulas and panoramas may scroll in their own box
      if (scrolls(element)) {
        if (desk && !element.matches("div.math")) faults.add(`scrolls: ${name(element)}`);
      } else if (style(element).overflowX === "visible" && !element.children.length && !around.some(scrolls)) {
        faults.add(`overflows: ${name(element)}`); // a word that is too long
      }
    }
  }

  // --- pictures
  for (const picture of document.images)
    if (picture.complete && !picture.naturalWidth) faults.add(`no picture: ${picture.src}`);

  // --- contrast of text, by the formula of WCAG 2: at least 4.5, for large letters 3
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const known = new Map();
  const channels = color => known.get(color) ?? known.set(color, rgba(color)).get(color);
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = element => {
    const layers = [element, ...above(element), document.body, root].map(e => channels(style(e).backgroundColor));
    const opaque = layers.findIndex(color => color[3] === 1);
    return layers.slice(0, opaque < 0 ? layers.length : opaque + 1).reduceRight((below, color) => over(color, below),
      [255, 255, 255, 1]);
  };
  const texts = document.createTreeWalker(document.querySelector("main") || document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.closest("script, style") || read_aloud(element)
        || !element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const {color, fontSize, fontWeight} = style(element);
    const below = ground(element);
    const [dark, light] = [luminance(over(channels(color), below)), luminance(below)].sort((a, b) => a - b);
    const ratio = (light + 0.05) / (dark + 0.05);
    const large = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.5 && fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5) - 0.01) faults.add(`contrast ${ratio.toFixed(1)}: ${name(element)}`);
    if (parseFloat(fontSize) > 0 && parseFloat(fontSize) < 10) faults.add(`letters of ${parseFloat(fontSize).toFixed(1)} pixels: ${name(element)}`);
  }
  return [...faults];
})()
