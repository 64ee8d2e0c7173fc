"""`make demo-app`: four kinds of application, found, promoted as sets from one file, taken home, promoted again."""
