"""Reads host code: kernel launches, sequences of launches that form one call, and functions that NVRTC must skip."""
