"""The tables of the papers as they are printed: method by method, one value per number of bits.

``PAPERS`` maps a table to its methods, and a method to ``{nbits: value}``. The values are of the
data and the features that the name of the table says. For StructHash, which has 64 bits only, the
columns are the methods, as in the paper.
"""


def printed(tables, begin, end=""):
    """Tables whose names begin and end so."""
    return {
        name: values
        for name, values in tables.items()
        if name.startswith(begin) and name.endswith(end)
    }


def _read(nbits, text):
    """Values of each line, ``name | value value ...``."""
    lines = (line.split("|") for line in text.strip().splitlines())
    return {
        name.strip(): dict(zip(nbits, map(float, values.split()), strict=True))
        for name, values in lines
    }


# He, Cakir, Bargal, Sclaroff: Hashing as Tie-Aware Learning to Rank. CVPR 2018.
# "*" marks settings that the authors of DTSH recommend (tables of AP), or an evaluation on the
# training samples (tables of NDCG).
TALR = {
    "table 1, CIFAR-10 images S1, VGG-F, AP_T": _read(
        (12, 24, 32, 48),
        """
        BRE        | .361 .448 .502 .533
        MACHash    | .628 .707 .726 .734
        FastHash   | .678 .729 .742 .757
        StructHash | .664 .693 .691 .700
        DPSH*      | .720 .757 .757 .767
        DTSH       | .725 .773 .781 .810
        MIHash     | .687 .775 .786 .822
        TALR-AP    | .732 .789 .800 .826
        """,
    ),
    "table 1, NUS-WIDE, VGG-F, AP_T": _read(
        (12, 24, 32, 48),
        """
        BRE        | .561 .578 .589 .607
        MACHash    | .361 .361 .361 .361
        FastHash   | .646 .686 .698 .712
        StructHash | .639 .645 .666 .669
        DPSH*      | .658 .674 .695 .700
        DTSH       | .660 .700 .707 .723
        MIHash     | .652 .693 .709 .723
        TALR-AP    | .709 .734 .745 .752
        """,
    ),
    "table 1, CIFAR-10 images S2, VGG-F, AP_T": _read(
        (16, 24, 32, 48),
        """
        DPSH*   | .908 .909 .917 .932
        DTSH    | .916 .924 .927 .934
        MIHash  | .929 .933 .938 .942
        TALR-AP | .939 .941 .943 .945
        """,
    ),
    "table 1, NUS-WIDE, VGG-F, AP@5000": _read(
        (12, 24, 32, 48),
        """
        DPSH*   | .758 .793 .818 .830
        DTSH    | .773 .813 .820 .838
        MIHash  | .767 .784 .809 .834
        TALR-AP | .795 .835 .848 .862
        """,
    ),
    "table 2, ImageNet100, AlexNet, AP@1000": _read(
        (16, 32, 48, 64),
        """
        HashNet | .5059 .6306 .6633 .6835
        MIHash  | .5688 .6608 .6852 .6947
        TALR-AP | .5892 .6689 .6985 .7053
        """,
    ),
    "table 3, LabelMe, GIST, NDCG_T": _read(
        (16, 32, 48, 64),
        """
        BRE*       | .807 .848 .871 .880
        MACHash    | .683 .683 .683 .687
        FastHash   | .844 .868 .855 .864
        DPSH       | .844 .856 .871 .874
        DTSH       | .838 .852 .859 .862
        StructHash | .857 .888 .904 .915
        MIHash     | .860 .889 .907 .914
        TALR-NDCG  | .866 .895 .908 .917
        """,
    ),
    "table 3, NUS-WIDE, VGG-F, NDCG_T": _read(
        (16, 32, 48, 64),
        """
        BRE*       | .805 .817 .827 .834
        MACHash    | .821 .821 .821 .821
        FastHash   | .885 .896 .899 .902
        DPSH       | .895 .905 .909 .909
        DTSH       | .896 .905 .911 .913
        StructHash | .889 .893 .894 .898
        MIHash     | .886 .903 .909 .912
        TALR-NDCG  | .903 .910 .916 .927
        """,
    ),
}

# Cao, Long, Wang, Yu: HashNet: Deep Learning to Hash by Continuation. ICCV 2017.
HASHNET = {
    "table 1, ImageNet100, AlexNet, MAP@1000": _read(
        (16, 32, 48, 64),
        """
        HashNet | .5059 .6306 .6633 .6835
        DHN     | .3106 .4717 .5419 .5732
        DNNH    | .2903 .4605 .5301 .5645
        CNNH    | .2812 .4498 .5245 .5538
        SDH     | .2985 .4551 .5549 .5852
        KSH     | .1599 .2976 .3422 .3943
        ITQ-CCA | .2659 .4362 .5479 .5764
        ITQ     | .3255 .4620 .5170 .5520
        BRE     | .0628 .2525 .3300 .3578
        SH      | .2066 .3280 .3951 .4191
        LSH     | .1007 .2350 .3121 .3596
        """,
    ),
    "table 1, NUS-WIDE, AlexNet, MAP@5000": _read(
        (16, 32, 48, 64),
        """
        HashNet | .6623 .6988 .7114 .7163
        DHN     | .6374 .6637 .6692 .6714
        DNNH    | .5976 .6158 .6345 .6388
        CNNH    | .5696 .5827 .5926 .5996
        SDH     | .4756 .5545 .5786 .5812
        KSH     | .3561 .3327 .3124 .3368
        ITQ-CCA | .4598 .4052 .3732 .3467
        ITQ     | .5086 .5425 .5580 .5611
        BRE     | .5027 .5290 .5475 .5546
        SH      | .4058 .4209 .4211 .4104
        LSH     | .3283 .4227 .4333 .5009
        """,
    ),
    "table 1, MS-COCO, AlexNet, MAP@5000": _read(
        (16, 32, 48, 64),
        """
        HashNet | .6873 .7184 .7301 .7362
        DHN     | .6774 .7013 .6948 .6944
        DNNH    | .5932 .6034 .6045 .6099
        CNNH    | .5642 .5744 .5711 .5671
        SDH     | .5545 .5642 .5723 .5799
        KSH     | .5212 .5343 .5343 .5361
        ITQ-CCA | .5659 .5624 .5297 .5019
        ITQ     | .5818 .6243 .6460 .6574
        BRE     | .5920 .6224 .6300 .6336
        SH      | .4951 .5071 .5099 .5101
        LSH     | .4592 .4856 .5440 .5849
        """,
    ),
    "table 2, ImageNet, unseen classes, MAP": _read(
        (16, 32, 48, 64),
        """
        HashNet | .4411 .5274 .5651 .5756
        DHN     | .2891 .4421 .5123 .5342
        """,
    ),
    "table 3, ImageNet100, AlexNet, MAP@1000": _read(
        (16, 32, 48, 64),
        """
        HashNet+C   | .5059 .6306 .6633 .6835
        HashNet     | .5059 .6306 .6633 .6835
        HashNet-W   | .3350 .4852 .5668 .5992
        HashNet-sgn | .4249 .5450 .5828 .6061
        """,
    ),
    "table 3, NUS-WIDE, AlexNet, MAP@5000": _read(
        (16, 32, 48, 64),
        """
        HashNet+C   | .6646 .7024 .7209 .7259
        HashNet     | .6623 .6988 .7114 .7163
        HashNet-W   | .6400 .6638 .6788 .6933
        HashNet-sgn | .6603 .6770 .6921 .7020
        """,
    ),
    "table 3, MS-COCO, AlexNet, MAP@5000": _read(
        (16, 32, 48, 64),
        """
        HashNet+C   | .6876 .7261 .7371 .7419
        HashNet     | .6873 .7184 .7301 .7362
        HashNet-W   | .6853 .7174 .7297 .7348
        HashNet-sgn | .6449 .6891 .7056 .7138
        """,
    ),
}

# Yu, Shen, Wang, Zhang, Torr: Learning to Hash Naturally Sorts. IJCAI 2022.
NSH = {
    "table 1, CIFAR-10 images, MAP@1000": _read(
        (16, 32, 64),
        """
        AGH        | .333 .357 .358
        ITQ        | .305 .325 .349
        DGH        | .335 .353 .361
        DeepBit    | .194 .249 .277
        SGH        | .435 .437 .433
        BGAN       | .525 .531 .562
        BinGAN     | .476 .512 .520
        GreedyHash | .448 .473 .501
        HashGAN    | .447 .463 .481
        DVB        | .403 .422 .446
        DistillHash| .284 .285 .288
        TBH        | .532 .573 .578
        MLS3RDUH   | .369 .394 .412
        DATE       | .577 .629 .647
        MBE        | .561 .576 .595
        CIMON      | .451 .472 .494
        CIBHash    | .590 .622 .641
        NSH        | .706 .733 .756
        """,
    ),
    "table 1, NUS-WIDE, MAP@5000": _read(
        (16, 32, 64),
        """
        AGH        | .592 .615 .616
        ITQ        | .627 .645 .664
        DGH        | .572 .607 .627
        DeepBit    | .392 .403 .429
        SGH        | .593 .590 .607
        BGAN       | .684 .714 .730
        BinGAN     | .654 .709 .713
        GreedyHash | .633 .691 .731
        DVB        | .604 .632 .665
        DistillHash| .667 .675 .677
        TBH        | .717 .725 .735
        MLS3RDUH   | .713 .727 .750
        DATE       | .793 .809 .815
        MBE        | .651 .663 .673
        CIBHash    | .790 .807 .815
        NSH        | .758 .811 .824
        """,
    ),
    "table 1, MS-COCO, MAP@5000": _read(
        (16, 32, 64),
        """
        AGH        | .596 .625 .631
        ITQ        | .598 .624 .648
        DGH        | .613 .631 .638
        DeepBit    | .407 .419 .430
        SGH        | .594 .610 .618
        BGAN       | .645 .682 .707
        BinGAN     | .651 .673 .696
        GreedyHash | .582 .668 .710
        DVB        | .570 .629 .623
        TBH        | .706 .735 .722
        MLS3RDUH   | .607 .622 .641
        CIBHash    | .737 .760 .775
        NSH        | .746 .774 .783
        """,
    ),
    "table 2, CIFAR-10 images, P@1000": _read(
        (16, 32, 64),
        """
        ITQ        | .276 .292 .309
        AGH        | .306 .321 .317
        DGH        | .315 .323 .324
        HashGAN    | .418 .436 .455
        SGH        | .387 .380 .367
        GreedyHash | .322 .403 .444
        TBH        | .497 .524 .529
        CIBHash    | .526 .570 .583
        NSH        | .691 .716 .744
        """,
    ),
    "table 2, MS-COCO, P@1000": _read(
        (16, 32, 64),
        """
        ITQ        | .607 .637 .662
        AGH        | .602 .635 .644
        DGH        | .623 .642 .650
        SGH        | .604 .615 .637
        GreedyHash | .603 .624 .675
        TBH        | .646 .698 .701
        CIBHash    | .734 .767 .785
        NSH        | .733 .770 .805
        """,
    ),
    "table 3, CIFAR-10 images, MAP@1000": _read(
        (16, 32, 64),
        """
        hard_sort         | .323 .405 .477
        no_quantization   | .686 .718 .735
        decoding          | .489 .501 .544
        single_bottleneck | .606 .631 .650
        no_softsort       | .641 .695 .707
        multi_label       | .689 .710 .730
        full              | .706 .733 .756
        """,
    ),
}

# Lin, Shen, Wu: Optimizing Ranking Measures for Compact Binary Code Learning. ECCV 2014.
# NDCG and P@K with K = 100. LSH's NDCG are our reading of cells that the text splits.
_METHODS = (
    "structhash, linear, weighted",
    "structhash, linear, AUC loss, weighted",
    "cghash, linear, weighted",
    "splh",
    "sths",
    "bre",
    "itq",
    "spherical",
    "mdsh",
    "agh",
    "lsh",
)
_METRICS = ("ndcg_at_100_delayed_log2", "precision_at_100", "ap", "area_under_pr")


def _by_method(text):
    """Values by method and metric of a table with a line per metric."""
    lines = [map(float, line.split()) for line in text.strip().splitlines()]
    columns = zip(*lines, strict=True)
    return {
        method: dict(zip(_METRICS, values, strict=True))
        for method, values in zip(_METHODS, columns, strict=True)
    }


STRUCTHASH = {
    "usps": _by_method(
        """
        .905 .893 .900 .816 .688 .777 .804 .762 .735 .741 .668
        .903 .894 .898 .805 .667 .755 .780 .730 .698 .711 .637
        .868 .851 .848 .689 .456 .582 .566 .451 .405 .333 .418
        .776 .760 .760 .609 .401 .520 .508 .424 .379 .326 .375
        """
    ),
    "mnist": _by_method(
        """
        .851 .798 .867 .804 .594 .805 .856 .806 .100 .793 .561
        .849 .807 .862 .797 .579 .790 .842 .788 .100 .780 .540
        .802 .790 .789 .684 .397 .558 .585 .510 .119 .505 .343
        .591 .574 .582 .445 .165 .313 .323 .246 .018 .197 .143
        """
    ),
    "cifar_gist": _by_method(
        """
        .335 .259 .258 .357 .178 .273 .314 .297 .283 .286 .168
        .336 .259 .261 .354 .174 .264 .301 .286 .270 .281 .164
        .294 .300 .298 .289 .147 .204 .215 .204 .181 .201 .149
        .105 .093 .091 .110 .042 .066 .074 .069 .064 .061 .042
        """
    ),
    "isolet": _by_method(
        """
        .881 .839 .866 .629 .766 .483 .623 .518 .538 .536 .404
        .875 .844 .859 .604 .755 .448 .589 .477 .493 .493 .370
        .836 .796 .815 .518 .653 .340 .484 .357 .348 .298 .267
        .759 .709 .737 .445 .563 .301 .429 .321 .320 .275 .238
        """
    ),
    "stl10": _by_method(
        """
        .435 .374 .375 .404 .214 .289 .337 .318 .313 .310 .228
        .431 .376 .376 .396 .208 .279 .325 .303 .298 .301 .222
        .331 .326 .322 .299 .155 .211 .233 .193 .178 .162 .162
        .267 .248 .248 .246 .130 .181 .200 .174 .164 .145 .138
        """
    ),
}
