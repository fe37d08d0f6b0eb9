//! An edit leaves what a plain list of lines would hold, whatever the order of operations; it takes
//! no more steps than there are lines and operations.

use super::*;
use crate::testing::Random;

/// What an edit must come to: names, in any case, with their values in order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model(Vec<(String, String)>);
