"""`make bench`: what the job costs, measured against the plain thing beside it.

Every figure is a comparison within one run on one machine: a ratio, or a difference that a ratio would hide. Nothing
here is a test; what is reached and what is not is printed, and written as JSON.
"""
