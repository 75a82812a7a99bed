//! espalier plans the training of large models: it reads a model, a cluster and a job, and searches for the plan
//! that trains fastest and fits in memory. Rooms, from the ground up; arrows point down only:
//! `units`, `memo`, `search` | `model`, `cluster`, `job` | `plan` | `cost`, `pipeline` | `estimate` | `space` | `report`, `cli`.

pub mod accuracy;
pub mod cli;
pub mod cluster;
pub mod cost;
pub mod error;
pub mod estimate;
pub mod experiment;
pub mod export;
pub mod import;
pub mod job;
pub mod memo;
pub mod model;
pub mod pipeline;
pub mod plan;
pub mod question;
pub mod read;
#[doc(hidden)]
pub mod reference;
pub mod report;
pub mod rules;
pub mod search;
pub mod space;
pub mod units;
