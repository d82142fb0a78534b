"""The words of Markdown pages, help and messages: the texts (texts.py), the search (words.py)."""
