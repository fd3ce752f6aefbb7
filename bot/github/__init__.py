"""The GitHub room: translates between GitHub's dialect and our nouns; decides nothing, and its JSON stops here."""
