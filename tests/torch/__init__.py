"""The surface of torch.utils.data."""
