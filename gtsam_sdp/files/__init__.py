"""Files of factor graphs: their lines, checked one by one, and what GTSAM makes of them."""
