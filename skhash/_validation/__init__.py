"""Checks of what users and files give: each error names the argument or the file, and the remedy."""
