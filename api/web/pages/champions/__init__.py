"""All champions, and rolling one back."""
