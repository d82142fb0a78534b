"""The arrows (uses) between the files of this repository, and the rules for them."""
