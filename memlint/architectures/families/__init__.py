"""Parameter shapes of each model family, built from its config.json."""
