//! Every interleaving of readers and writers.
