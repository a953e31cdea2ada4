"""Who works on a task: seats and their domains, what they have done, and how long their conversations go on."""
