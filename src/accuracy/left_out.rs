//! Why a row cannot be compared.

use super::cells::Unreadable;
use serde::Serialize;
use std::fmt;

/// What is unknown, or stands against it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// A cell that holds no value of its column.
    Unreadable(Unreadable),
    /// The table itself marks it as unusable.
    Unusable,
    /// A column that decides the price is empty.
    Unknown(&'static str),
    /// The run crashed: there is no measurement, only the fact.
    Crashed,
    /// Nothing of the kind asked for was measured.
    NotMeasured,
    /// Devices of several kinds.
    Mixed,
    /// No device of that name is known, or its rates are not published.
    Device(String),
    /// On another device than the one that is asked for: the run's, and that one.
    OtherDevice(String, String),
    /// The layers are of a kind that is not modelled.
    Architecture,
    /// A way of running that is not modelled.
    Software(&'static str),
    /// The layers do not divide by the stages and the cut is not stated.
    Cut,
    /// More stages than the framework can fill: it refuses to run.
    EmptyStage,
    /// The degrees do not multiply to the devices, or do not divide the batch: which columns, and how.
    Inconsistent(&'static str),
    /// A measurement beyond the device's physics: more arithmetic per second than its peak, or more memory than it has.
    Impossible,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(_) => f.write_str("unreadable: a cell holds no value of its column"),
            Self::Unusable => f.write_str("marked unusable by the table"),
            Self::Unknown(column) => write!(f, "{column} not stated"),
            Self::Crashed => f.write_str("crashed: nothing measured"),
            Self::NotMeasured => f.write_str("not measured"),
            Self::Mixed => f.write_str("devices of several kinds"),
            Self::Device(name) => write!(f, "device not known: `{name}`"),
            Self::OtherDevice(own, asked) => write!(f, "ran on {own}, the cluster has {asked}"),
            Self::Architecture => f.write_str("layers of a kind that is not modelled"),
            Self::Software(what) => write!(f, "{what} is not modelled"),
            Self::Cut => f.write_str("uneven pipeline cut not stated"),
            Self::EmptyStage => f.write_str("a stage would be empty: the framework refuses it"),
            Self::Inconsistent(how) => write!(f, "degrees, devices and batch contradict each other: {how}"),
            Self::Impossible => f.write_str("measured faster than the device's peak, or fuller than the device"),
        }
    }
}
