"""What the review of a pod costs the injector."""
