"""The end of a step: from the last hidden states to the loss, with what its backward keeps."""
