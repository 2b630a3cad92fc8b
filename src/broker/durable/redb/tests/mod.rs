mod journal;
mod model;
