"""What a ladder is worth when a model becomes slow (`jobs`), and what a cached answer costs (`hits`)."""
