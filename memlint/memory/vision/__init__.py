"""Vision towers and projectors of image-text models, and the patches and tokens that images become."""
