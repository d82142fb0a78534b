"""The words of Markdown pages, help and messages: which texts are read (texts.py), what is found (words.py)."""
