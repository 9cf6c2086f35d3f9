use std::collections::HashSet;

use event::Collected;
use space::{Image, Recorded, Recording};

use super::*;
