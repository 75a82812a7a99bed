//! Galvatron's published cost model, priced from its own profiles, with its known faults switchable.

mod embedding;
mod error;
pub mod fit;
mod layer;
mod model;
mod plan;
pub mod profiles;
mod repairs;
mod setting;
mod strategy;

pub use embedding::EmbeddingUse;
pub use error::GalvatronCostError;
pub use layer::{LayerMemoryUse, LayerTime};
pub use model::{CostModel, Micro};
pub use plan::{Plan, Price, StagePrice, TpSpMode, even_partition, pipeline_ms};
pub use profiles::Profiles;
pub use repairs::{Repair, Repairs, UnknownRepair};
pub use setting::{Batches, Constants, LayerType, MemoryMode, Pipeline, Precision, Setting, SpaceLimits, TimeMode};
pub use strategy::{DpType, Strategy};
