"""One search: progress, elite, champion."""
