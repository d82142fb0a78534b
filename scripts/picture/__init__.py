"""Pictures of the documentation: what they are made of (canvas.py), what they show (drawings.py)."""
