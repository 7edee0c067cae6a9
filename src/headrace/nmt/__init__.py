"""A neural machine translation system: the classical seq2seq tutorial on PyTorch, fed by headrace."""
