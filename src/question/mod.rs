//! The question.
