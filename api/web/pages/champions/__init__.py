"""Pages that list champions, roll a champion back, and restore a former champion."""
