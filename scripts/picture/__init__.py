"""Pictures of the documentation: drawing (canvas.py), contents (drawings.py)."""
