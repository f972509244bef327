"""What a run holds between steps: parameters, adapters, gradients, optimizer states, other frozen models."""
