//! Collects layers into classes: layers with the same operators share one class, whatever their order.

use super::{ClassId, LayerClass, Stream, Sublayer};
use std::collections::HashMap;

/// What makes a class: everything but its name.
type Shape = (Stream, u64, u64, Vec<Sublayer>);

/// Classes in the order of their first layer.
#[derive(Debug, Default)]
pub struct Draft {
    classes: Vec<LayerClass>,
    known: HashMap<Shape, ClassId>,
}

impl Draft {
    /// The class of a layer, new if no layer before had these operators. `residual_streams` is 1 but for
    /// hyper-connections.
    pub fn layer(
        &mut self,
        name: &str,
        stream: Stream,
        hidden: u64,
        residual_streams: u64,
        sublayers: Vec<Sublayer>,
    ) -> ClassId {
        let shape = (stream, hidden, residual_streams, sublayers);
        if let Some(&id) = self.known.get(&shape) {
            return id;
        }
        let id = ClassId(u32::try_from(self.classes.len()).unwrap_or(u32::MAX));
        let sublayers = shape.3.clone();
        let name = self.free_name(name);
        self.classes.push(LayerClass { name, stream, hidden, residual_streams, sublayers });
        self.known.insert(shape, id);
        id
    }

    /// The name, or with a number if another class has it.
    fn free_name(&self, name: &str) -> String {
        let taken = |candidate: &str| self.classes.iter().any(|c| c.name == candidate);
        if !taken(name) {
            return name.to_owned();
        }
        (2u32..).map(|n| format!("{name}.{n}")).find(|candidate| !taken(candidate)).unwrap_or_default()
    }

    /// The classes, in the order in which their first layers came.
    pub fn into_classes(self) -> Vec<LayerClass> {
        self.classes
    }
}
