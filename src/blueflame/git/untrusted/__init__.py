"""An agent's checkout, read and disarmed as plain files: no git of ours uses it as its repository."""
