"""The model behind the Model port: the only package that imports anthropic."""
