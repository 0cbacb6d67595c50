"""Pages to sign in and sign out."""
