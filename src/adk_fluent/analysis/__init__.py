"""What is known of an expression before it runs, as facts: its steps, what each key holds, who hears whom."""
