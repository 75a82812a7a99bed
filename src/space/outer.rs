//! The outer decisions by number of stages and of micro-batches, with the bound of each: looked up at every step of every
//! path.

use super::tasks::TaskKey;

/// Tasks of one number of stages and of micro-batches.
#[derive(Debug, Clone)]
pub struct Row {
    /// Micro-batches.
    pub micro_batches: u64,
    /// Indices of the tasks, ascending.
    pub tasks: Vec<usize>,
    /// Least bound of any of them, seconds.
    pub floor: f64,
}

/// Tasks of one number of stages.
#[derive(Debug, Clone)]
pub struct Column {
    /// Stages.
    pub pipeline: u32,
    /// By number of micro-batches, ascending.
    pub rows: Vec<Row>,
    /// Least bound of any task, seconds.
    pub floor: f64,
}

/// All tasks of a space.
#[derive(Debug, Clone)]
pub struct Outer {
    /// By number of stages, ascending.
    pub columns: Vec<Column>,
    /// Bound of every task, seconds.
    pub floors: Vec<f64>,
    /// Least of them; infinite without tasks.
    pub floor: f64,
}

impl Outer {
    /// Sorts `tasks`, whose bounds are `floors`.
    pub fn new(tasks: &[TaskKey], floors: Vec<f64>) -> Self {
        let mut columns: Vec<Column> = Vec::new();
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|t| (tasks[*t].pipeline, tasks[*t].micro_batches, *t));
        for t in order {
            let (pipeline, micro_batches) = (tasks[t].pipeline, tasks[t].micro_batches);
            if columns.last().is_none_or(|c| c.pipeline != pipeline) {
                columns.push(Column { pipeline, rows: Vec::new(), floor: f64::INFINITY });
            }
            let Some(column) = columns.last_mut() else { continue };
            column.floor = column.floor.min(floors[t]);
            match column.rows.last_mut() {
                Some(row) if row.micro_batches == micro_batches => {
                    row.tasks.push(t);
                    row.floor = row.floor.min(floors[t]);
                }
                _ => column.rows.push(Row { micro_batches, tasks: vec![t], floor: floors[t] }),
            }
        }
        let floor = floors.iter().copied().fold(f64::INFINITY, f64::min);
        Self { columns, floors, floor }
    }

    /// Where tasks of `pipeline` stages stand in [`Outer::columns`].
    pub fn column(&self, pipeline: u32) -> Option<usize> {
        self.columns.binary_search_by_key(&pipeline, |c| c.pipeline).ok()
    }

    /// Where tasks of so many stages and micro-batches stand.
    pub fn place(&self, pipeline: u32, micro_batches: u64) -> Option<(usize, usize)> {
        let column = self.column(pipeline)?;
        let row = self.columns[column].rows.binary_search_by_key(&micro_batches, |r| r.micro_batches).ok()?;
        Some((column, row))
    }

    /// Tasks of so many stages and micro-batches, ascending.
    pub fn tasks(&self, pipeline: u32, micro_batches: u64) -> &[usize] {
        self.place(pipeline, micro_batches).map_or(&[], |(c, r)| &self.columns[c].rows[r].tasks)
    }
}
