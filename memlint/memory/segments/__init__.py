"""The segments of a training step: the embedding, the decoder layers, the head with the loss."""
