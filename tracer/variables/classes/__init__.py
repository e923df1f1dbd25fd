"""Classes, existing and made by the program, enums, and the forms of annotations."""
