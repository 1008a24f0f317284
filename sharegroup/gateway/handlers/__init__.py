"""What the gateway answers itself: one module for each family of APIs."""
