// Package digits holds a real model with real inputs to try things with: a small convolutional classifier of handwritten
// digits, 20 images that it was not trained on, and the same classifier weighed down so that it starts like a big model.
// It refuses to know who serves the model or asks it.
package digits
