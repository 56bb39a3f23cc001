"""One file that explains a compile: collected while it runs, written as HTML or JSON. Loaded only when it is asked for."""
