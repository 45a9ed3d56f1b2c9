//! Configuration: layers, checks and warnings. See [`values`] for what comes out.

pub mod values;
