"""Programs that submit variants: folders, language models, and agents over the Model Context Protocol."""
