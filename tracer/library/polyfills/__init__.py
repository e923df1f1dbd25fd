"""Functions of the standard library written in plain Python, so that they can be traced through. Importing a module of this
package registers its functions as replacements."""
