"""The model behind the Model port: the only room that imports anthropic."""
