"""How good a model is: measures, the sets they are taken of, and pictures."""
