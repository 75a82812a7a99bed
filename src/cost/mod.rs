//! What a layer, a collective and memory cost: the analytic model.

pub mod collective;
pub mod figures;
pub mod galvatron;
pub mod kernel;
pub mod options;
pub mod part;
pub mod software;
pub mod states;

pub use collective::{Group, Network};
pub use figures::Figures;
pub use options::CostOptions;
pub use part::{Mesh, PartPrice, PassTime, Pricer};
pub use software::{Selective, Software};
pub use states::{StateBytes, States};
