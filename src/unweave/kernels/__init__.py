"""Triton kernels and their launches: nothing here knows the rest of the package.

Imported where a GPU (or Triton's interpreter) runs them, never before: Triton is optional.
"""
