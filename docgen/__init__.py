"""What the documentation's site is made with, beside Zensical: see `./dev docs`."""
