//! Views are drawn of answers: a view holds one and reads its fields as if they were its own.

/// A view of an answer.
macro_rules! view_of {
    ($(#[$about:meta])* $view:ident($answer:ty)) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        pub struct $view(pub $answer);

        impl std::ops::Deref for $view {
            type Target = $answer;

            fn deref(&self) -> &$answer {
                &self.0
            }
        }
    };
}
pub(crate) use view_of;
