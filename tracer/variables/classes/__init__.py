"""Classes (those that exist and those that the traced program makes), enums, and type annotations such as `list[int]`."""
